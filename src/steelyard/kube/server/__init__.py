"""The Kubernetes REST API on top of the store. Its rooms are the stations of a request, in about this order.

    transport      connections, HTTP, and from a request to a `Call` (`call.py`, `routing.py`)
    fairness       what a request may cost, and whose turn it is
    rights         who calls, and may they
    bodies         bytes to values, and values to bytes
    catalogue      what is served: each resource, the webhooks and policies about it, discovery
      definitions    what a CustomResourceDefinition means
      strategies     what each built-in kind does beyond its schema
      printing       what `kubectl get` shows
      openapi        what kubectl knows of the kinds
    verbs          get, list, watch, create, update, patch, delete
      patch, apply   what a patch makes of an object
      candidates     from a body to an object: pruned, defaulted, judged
      admission      past the webhooks and policies (`webhooks`, `expressions`)
    space          this server's part of the store (`core.py`: what all verbs share)
    access         where rights come from: roles, bindings, service accounts
    housekeeping   what the server does by itself afterwards

`api.py` puts one server together, `hosting.py` runs many in a process.
"""
