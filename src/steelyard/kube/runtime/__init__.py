"""What every reconciler stands on: informers, work queue, controllers, conditions, finalizers, events."""
