"""The shared parts of the scripts in `examples/`: arguments, exit codes, and the course of a training run."""
