"""The command line: thin verbs over the client. Results go to stdout, everything else to stderr."""
