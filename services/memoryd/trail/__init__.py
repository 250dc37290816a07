"""What was asked and answered: the recall log, and the answers that a repeated call is given again."""
