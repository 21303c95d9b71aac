"""What each infrastructure says of itself to composition, one module each."""
