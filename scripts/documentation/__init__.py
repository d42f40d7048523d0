"""What makes the pages of docs/: sizes and pictures, the outputs of the notebook, the site."""
