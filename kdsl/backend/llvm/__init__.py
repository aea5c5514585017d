"""What both targets share in LLVM: emission of arithmetic, module set-up, optimisation, the guard against LLVM aborts."""
