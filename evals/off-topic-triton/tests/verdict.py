import cases
import off_topic

off_topic.judged("configs.py", cases.FUNCTION, cases.CASES)
