"""Kernel regression onto label vectors, and nearest neighbours: our variant of DXML."""
