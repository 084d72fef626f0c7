"""What people are asked: schemes of answers, sheets of questions, and the questionnaire that needs no server."""
