"""`holdfast status`: of a gateway that runs, and of one that is down."""
