// Nothing: what starting Bun itself costs.
