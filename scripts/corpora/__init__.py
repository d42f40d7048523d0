"""Where the corpora of this project come from: a grammar, Tatoeba, and manuals and textbooks."""
