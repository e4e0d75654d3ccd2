"""Several networks in one space of label vectors, and nearest neighbours: our variant of DXML."""
