"""Our tasks inside other evaluation libraries: a module for each, which needs that library; import the one you use."""
