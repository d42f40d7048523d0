"""One sentence followed through a model: what attention compared, weighed and passed on."""
