"""What may enter the cluster: pure rules over one request and the facts it needs, and the server that asks them."""
