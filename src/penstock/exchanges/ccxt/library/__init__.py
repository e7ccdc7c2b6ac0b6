"""What knows the objects of ccxt: its clients, methods, numbers and errors."""
