"""One async client interface with two transports: HTTPS, or straight into the server in this process."""
