"""What a model is made of and asks for, found before anything is compiled."""
