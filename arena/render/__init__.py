"""Pictures of a match. Nothing here needs a display, except the window."""
