"""The tasks inside other evaluation libraries: import the module of the library that you use."""
