"""The Spanish-English pairs of Tatoeba: downloading, unpacking, cleaning and splitting them."""
