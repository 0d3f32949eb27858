"""One declarative plan for AI inference platforms."""
