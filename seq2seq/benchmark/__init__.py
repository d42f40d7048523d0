"""How fast this machine trains and translates, and how far that is from what it could do."""
