"""What the scripts in `examples/` share: arguments, exit codes, and the story of a training run."""
