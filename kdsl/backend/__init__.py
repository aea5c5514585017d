"""Code generation: LLVM in common, then one folder per target."""
