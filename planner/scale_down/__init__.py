"""scale_down."""
