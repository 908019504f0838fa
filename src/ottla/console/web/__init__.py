"""What carries the pages: who is there, what may pass, how answers and live news leave."""
