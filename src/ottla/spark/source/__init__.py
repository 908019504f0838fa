"""Reading: which offsets a query reads, and the tasks that read them."""
