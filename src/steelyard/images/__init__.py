"""Images that machines of KVM hosts boot from: what is in them, how they are built, and those that a host has."""
