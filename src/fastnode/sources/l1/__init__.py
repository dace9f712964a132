"""Reading of L1: messages, how far the chain is proven and final, fees, committees."""
