"""From arguments to a launch: contracts, geometry, and the launcher that is generated for each kernel. Leaves out compilation and devices."""
