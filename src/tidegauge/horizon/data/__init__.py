"""Records to arrays; knows no model. Imports schema and io only."""
