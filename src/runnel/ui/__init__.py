"""What people meet: the command line; later a console."""
