package trial

import "encoding/json"

// RewardKey is the key of a plain reward; Harbor reads reward.txt into it.
const RewardKey = "reward"

// Solved says whether rewards make a trial pass: the key "reward" is at least
// 1, or, where that key is missing, there is at least one key and every value
// is at least 1. Extra keys beside "reward" (speed, size) never decide.
func Solved(rewards map[string]json.Number) bool {
	if n, ok := rewards[RewardKey]; ok {
		return atLeastOne(n)
	}
	for _, n := range rewards {
		if !atLeastOne(n) {
			return false
		}
	}
	return len(rewards) > 0
}

func atLeastOne(n json.Number) bool {
	f, err := n.Float64()
	return err == nil && f >= 1
}

// Main is the one number a table shows for a trial: the key "reward", or the
// only key there is. It is nil when there are several others or none.
func Main(rewards map[string]json.Number) *float64 {
	n, ok := rewards[RewardKey]
	if !ok {
		if len(rewards) != 1 {
			return nil
		}
		for _, only := range rewards {
			n = only
		}
	}
	f, err := n.Float64()
	if err != nil {
		return nil
	}
	return &f
}
