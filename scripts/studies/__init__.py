"""Studies: a grid of recipes, each trained with several seeds, measured and compared."""
