"""What makes the trained models that come with the package."""
