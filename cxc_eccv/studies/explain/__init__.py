"""What was retrieved instead: failures told in concepts, altered queries, and whether people agree."""
