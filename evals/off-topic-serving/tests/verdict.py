import cases
import off_topic

off_topic.judged("cache.py", cases.FUNCTION, cases.CASES)
