"""What gas costs: from the chain, from another node, from L1."""
