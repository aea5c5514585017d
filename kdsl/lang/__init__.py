"""The vocabulary of the language: element types, views, structs, the table of intrinsics, mathematics."""
