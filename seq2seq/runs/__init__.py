"""Run directories and checkpoints: training writes them, translation reads them."""
