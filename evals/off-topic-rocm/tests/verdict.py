import cases
import off_topic

off_topic.judged("flags.py", cases.FUNCTION, cases.CASES)
