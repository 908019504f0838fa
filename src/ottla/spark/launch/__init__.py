"""What a session needs before it starts: Java, jars, Python workers, the package."""
