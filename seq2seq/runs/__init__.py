"""What training leaves on disk and translating reads: run directories and checkpoints."""
