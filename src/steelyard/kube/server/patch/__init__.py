"""The three kinds of patch that change an object by itself: JSON patch, merge patch and strategic merge patch."""
