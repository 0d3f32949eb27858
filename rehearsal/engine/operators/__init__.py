"""Stand-ins for operators that a simulated cluster does not run: one module for each kind, and `stand_in`, which uses them."""
