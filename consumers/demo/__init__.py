"""The demo: traffic of a small shop, with the troubles that the console is for."""
