"""Parent to child: what several models share."""
