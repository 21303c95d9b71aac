"""What the server does by itself, following the changes of its space: serving what definitions define, collecting
garbage, emptying namespaces, letting events expire, its own Service.
"""
