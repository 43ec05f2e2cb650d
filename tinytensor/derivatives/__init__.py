"""Results made of gradients: `grad`, Jacobians, maps over a batch, complex rules, checkpoints."""
