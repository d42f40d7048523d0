"""Spanish-English pairs of textbooks, manuals, documentation and interfaces, from git clones."""
